"""What is trained: the model, the recipe, the number formats, and counting their parameters and FLOP."""
