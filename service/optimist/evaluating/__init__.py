"""Language models compared by one file: prompts to endpoints, scores of their answers, and which model is best."""
