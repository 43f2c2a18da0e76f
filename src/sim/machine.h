/* machine.h - sandpool-sim: the simulated machine as a process, so that boxes outlive the daemon.
 *
 * Two HTTP servers on one loop: the machine's own on a Unix socket (control.c, deaths.c), and one
 * on loopback TCP that stands for all the boxes (endpoints.c). http_server_ctx() of both is the
 * struct machine. */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include "http/http.h"
#include "loop/loop.h"
#include "loop/signals.h"
#include "sim/deaths.h"
#include "sim/wire.h"
#include "sim/world.h"

struct machine {
    struct loop loop;
    struct signals signals;
    struct world world;
    struct deaths deaths;
    struct http_server *control;
    struct http_server *endpoints;
    int port;            /* of the boxes */
    unsigned hide_lists; /* so many listings will show nothing */
    unsigned fail_binds; /* so many binds will fail */
    unsigned closing;
};

extern const struct http_route control_routes[];
/* faults.c: {"hide_lists": 1, "fail_binds": 2}, what shall go wrong next. */
void machine_handle_faults(struct http_exchange *ex);
/* Whether this one goes wrong; counts it. */
bool machine_take_fault(unsigned *left);
extern const struct http_route endpoint_routes[];

/* The box that the path's {id} names; NULL when there is none. With ?instance= a box of another
 * instance counts as none. The answer (404) has been sent when it returns NULL. */
struct world_box *machine_find_box(struct http_exchange *ex);
/* `dst` has room for WIRE_URL_MAX + 1. */
void machine_box_url(const struct machine *m, uint64_t box_id, char *dst);

#endif
