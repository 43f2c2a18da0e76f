/* gate.h - a limit of how many do something at once. The others wait in turn. */
#ifndef BACKEND_GATE_H
#define BACKEND_GATE_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/waiter.h"

struct gate {
    size_t inside;
    size_t max;
    struct list waiting; /* struct waiter */
};

void gate_init(struct gate *g, size_t max);
/* True: `w` is inside. Else it is resumed when it is; whoever gives up before takes it off g->waiting. */
bool gate_enter(struct gate *g, struct waiter *w);
/* Resumes the first that waits, from inside this call. */
void gate_leave(struct gate *g);

#endif
