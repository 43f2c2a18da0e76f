/* remote.h - the `remote` backend: boxes are made by a provisioner, over its HTTP API (that of DeerFlow:
 * /api/sandboxes), as Pods of a cluster or whatever it likes.
 *
 * The provisioner keeps an id for each box and nothing else of ours, so the id says whose it is:
 *   sp-{8 hex of our instance}-{box id}   a blank box; the thread that gets it is in our store only
 *   {sandbox id}                          a box made for one thread, under its public id
 * A `ref` is the id, with @{container_id} where the provisioner reports one: another container under the
 * same id is another box. Boxes of the first kind that no row knows are destroyed, since nobody
 * knows whose they were; of the second kind they are not touched: others make boxes under such ids.
 * What a box is reached by is the provisioner's word; it knows no token, so the port is as open as
 * the provisioner's network lets it be. */
#ifndef REMOTE_REMOTE_H
#define REMOTE_REMOTE_H

#include "backend/backend.h"

extern const struct backend_ops remote_ops;

#endif
