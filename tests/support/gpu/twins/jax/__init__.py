"""JAX's twin."""
