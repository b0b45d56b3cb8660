"""The laboratory: any policies on any samples, and what that costs; and real generators to compare in the demo."""
