/* machine.h - what `sandpool doctor` examines besides backends: the kernel, open files, the socket, ports, the clock, the
 * state directory. */
#ifndef FRONT_MACHINE_H
#define FRONT_MACHINE_H

#include "config/config.h"
#include "engine/engine.h"

struct machine_place {
    bool is_serving; /* the daemon that listens there asks */
    char socket[CONFIG_PATH_MAX + 1];
    unsigned mode;
    char tcp[CONFIG_NAME_MAX + 1];         /* "": it does not listen there */
    char provisioner[CONFIG_NAME_MAX + 1]; /* likewise */
    char state_dir[CONFIG_PATH_MAX + 1];
    uint64_t floor_bytes;
    uint64_t max_boxes;
};

void machine_place(const struct config *c, bool is_serving, struct machine_place *ret);
/* Blocks: for a thread of its own, or a program without a loop. */
void machine_examine(const struct machine_place *p, struct backend_exam *r);

#endif
