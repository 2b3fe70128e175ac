srcs-y += gramophone_ta.c
srcs-y += rollback.c
