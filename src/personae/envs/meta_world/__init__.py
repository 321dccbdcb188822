"""Robot arms of Meta-World, as Continual World uses them."""
