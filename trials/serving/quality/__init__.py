"""Whether the answers are good: asked of the very server that was loaded. One file a way of judging."""
