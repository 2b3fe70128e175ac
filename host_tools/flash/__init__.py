"""Images for boards: packed from what `gramophone generate` wrote, read back and checked."""
