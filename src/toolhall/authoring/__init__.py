"""What a tool author imports: @tool, Toolkit, Context."""
