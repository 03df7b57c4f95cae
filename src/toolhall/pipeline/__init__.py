"""The stages that every tool call passes, their typed states, and the dispatcher in front of them."""
