/* schema_oci.c - keys of backend oci, and of the programs that boxes of this machine need. */
#include "config/table.h"

static const struct config_key keys[] = {
    GLOBAL(agent.path, PATH, 0, 0, CONFIG_PATH_MAX, "",
           "The sandpool-agent that is put into boxes, those of docker too. Empty: the one beside "
           "the daemon."),
    GLOBAL(helper.path, PATH, 0, 0, CONFIG_PATH_MAX, "",
           "The program that makes and removes boxes for the daemon. Empty: the sandpool-helper "
           "beside the daemon."),
    GLOBAL(oci.id_base, U64, 0, 65536, 0x7fff0000, "1610612736",
           "First of the user and group ids of boxes, 65536 for each box, so that no box shares "
           "an id with another box or with this machine. The range must be free."),
    GLOBAL(
        oci.kernel_memory, SIZE, 0, 0, 64 * GIB, "128M",
        "How much memory of the machine a box may hold by file locks and open directories, which "
        "the kernel charges to nobody. A box with more is ended (`kernel_memory`). 128M: 5461 "
        "open directories or 699050 locks. 0: no bound."),
};

const struct config_table config_table_oci = {keys, ARRAY_LEN(keys)};
