/* docker.h - the `docker` backend: boxes are containers of a Docker engine, over its API.
 *
 * Everything about a box lies with the engine, so that nothing is lost with our database:
 *   labels of the container   instance, box id, profile, spec hash, token, and where it is reached.
 *                             The token is seen by whoever may inspect containers, and whoever may
 *                             do that is root on the engine's machine anyway
 *   name of the container     {prefix}-{box id}; {prefix}-{sandbox id} once it has an owner
 *   an empty volume           whose labels name the owner. Labels of a container cannot change, and
 *                             a file inside could be forged by the box; nobody mounts this one
 * How a box is reached: with `network: none` and `host` the daemon listens on 127.0.0.1 and has a relay
 * pass the connections to the agent (relay.c), so the container needs no network; with `nat` the engine
 * publishes a port. */
#ifndef DOCKER_DOCKER_H
#define DOCKER_DOCKER_H

#include "backend/backend.h"

extern const struct backend_ops docker_ops;

#endif
