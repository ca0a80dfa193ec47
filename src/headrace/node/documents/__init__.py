"""Documents of the API: OpenAPI, AsyncAPI and API Blueprint, from the same values as its routes."""
