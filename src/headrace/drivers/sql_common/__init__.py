"""What the SQL drivers share: statements in files, and operations that send them."""
