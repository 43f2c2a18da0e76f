/* schema_sim.c - keys of a profile that only backend sim has. */
#include "config/table.h"

static const struct config_key keys[] = {
    PROFILE(sim.socket, PATH, CONFIG_SPEC | CONFIG_ADDRESS | CONFIG_OF_BACKEND, 0, CONFIG_PATH_MAX,
            "",
            "Socket of a sandpool-sim, whose boxes outlive this daemon. Empty: boxes "
            "inside this process."),
    PROFILE(sim.create_ms, U64, CONFIG_OF_BACKEND, 0, 3600000, "50",
            "How long making a box takes."),
    PROFILE(sim.create_jitter_ms, U64, CONFIG_OF_BACKEND, 0, 3600000, "20",
            "Up to this much more, at random."),
    PROFILE(sim.ready_ms, U64, CONFIG_OF_BACKEND, 0, 3600000, "0",
            "How long a box of sandpool-sim answers 503 before it is ready."),
    PROFILE(sim.destroy_ms, U64, CONFIG_OF_BACKEND, 0, 3600000, "10",
            "How long destroying one takes."),
    PROFILE(sim.fail_percent, U64, CONFIG_OF_BACKEND, 0, 100, "0",
            "Percentage of creates that fail."),
    PROFILE(sim.hang_percent, U64, CONFIG_OF_BACKEND, 0, 100, "0",
            "Percentage of creates that never answer."),
    PROFILE(sim.seed, U64, CONFIG_OF_BACKEND, 0, UINT64_MAX, "1",
            "Seed of the random numbers: the same seed gives the same run."),
    PROFILE(sim.late, BOOL, CONFIG_OF_BACKEND, 0, 0, "true",
            "Whether envs, mounts and limits can be applied to a running box. false: only when "
            "it is made, so a box is made for each caller that requests some."),
};

const struct config_table config_table_sim = {keys, ARRAY_LEN(keys)};
