"""What is known of a blend without its samples: weights, a quadratic model of the loss, the programme over weights."""
