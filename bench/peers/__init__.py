"""The peers: each is installed privately, started on loopback, and gone afterwards."""
