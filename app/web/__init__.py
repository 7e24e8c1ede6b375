"""The pages: thin routes, one frozen context for each template, and the environment that renders them."""
