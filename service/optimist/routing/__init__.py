"""The goal "route": the best generator for each prompt. What only routed prompts need stands here."""
