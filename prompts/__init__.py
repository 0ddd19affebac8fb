"""What is said to a model and how its reply is read: templates, builders, parsers, history, model clients."""
