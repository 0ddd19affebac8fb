"""What an action can do: tools, their catalog and schemas, policy, defaults, and the built-in actions."""
