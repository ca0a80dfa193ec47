"""The libraries that Headrace grew from, each with its own words, over one store."""
