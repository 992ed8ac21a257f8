"""A race: methods with many settings each, on equal budgets; who is behind on validation data falls out rung by rung."""
