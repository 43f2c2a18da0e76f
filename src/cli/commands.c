/* commands.c - the table of commands and their options. Help and completions are made from it. */
#include "cli/cli.h"

#define END_OPTIONS                         \
    {                                       \
        NULL, 0, CLI_FLAG, NULL, NULL, NULL \
    }

static const struct cli_option no_options[] = {END_OPTIONS};

static const struct cli_option acquire_options[] = {
    {"user", 'u', CLI_TEXT, "USER", "user of the thread (default: default)", NULL},
    {"profile", 'p', CLI_TEXT, "NAME",
     "profile of the box, or auto (default: the thread's own, else default)", NULL},
    {"id", 0, CLI_TEXT, "ID", "use this sandbox id instead of a computed one", NULL},
    {"wait", 'w', CLI_DURATION, "TIME", "wait this long for a box; 0: do not wait", NULL},
    {"ttl", 0, CLI_DURATION, "TIME", "end the lease after this time (default: the profile's)",
     NULL},
    {"idle", 0, CLI_DURATION, "TIME", "destroy it when idle this long (default: the profile's)",
     NULL},
    {"snapshot", 0, CLI_TEXT, "SNAPSHOT", "make the box from this snapshot", NULL},
    {"metadata", 0, CLI_TEXT, "JSON", "an object that is stored with the box", NULL},
    {"env", 'e', CLI_LIST, "NAME=VALUE", "set a variable in the box; may be repeated", NULL},
    {"mount", 0, CLI_LIST, "/HERE:/THERE[:ro]",
     "mount a path of the daemon's machine; may be repeated", NULL},
    {"memory", 0, CLI_TEXT, "SIZE", "memory of the box, like 512M (default: the profile's)", NULL},
    {"cpus", 0, CLI_TEXT, "N", "processors of the box, like 1.5 (default: the profile's)", NULL},
    {"pids", 0, CLI_NUMBER, "N", "processes of the box (default: the profile's)", NULL},
    {"label", 0, CLI_LIST, "NAME=VALUE", "only a profile with this label; may be repeated", NULL},
    {"network", 0, CLI_TEXT, "KIND", "only a profile with this network", "none host nat"},
    {"export", 0, CLI_FLAG, NULL, "print shell exports, token included, for eval", NULL},
    {"quiet", 'q', CLI_FLAG, NULL, "print the sandbox id only", NULL},
    {"verbose", 'v', CLI_FLAG, NULL, "show what it waits for (default: only on a terminal)", NULL},
    END_OPTIONS,
};

static const struct cli_option run_options[] = {
    {"profile", 'p', CLI_TEXT, "NAME",
     "profile of the box (default: the thread's own, else default)", NULL},
    {"thread", 0, CLI_TEXT, "THREAD", "use the box of this thread and keep it for the thread",
     NULL},
    {"user", 'u', CLI_TEXT, "USER", "user of the thread (default: default)", NULL},
    {"env", 'e', CLI_LIST, "NAME=VALUE", "set a variable; may be repeated", NULL},
    {"cwd", 'C', CLI_TEXT, "DIR", "directory in the box to start in", NULL},
    {"as", 0, CLI_TEXT, "USER", "user in the box to run as", NULL},
    {"timeout", 0, CLI_DURATION, "TIME", "end the command after this time, exit 124", NULL},
    {"keep", 0, CLI_FLAG, NULL, "do not release the box; its id is printed on stderr", NULL},
    {"tty", 't', CLI_FLAG, NULL, "give the command a terminal", NULL},
    {"no-stdin", 0, CLI_FLAG, NULL, "do not pass standard input to the command", NULL},
    {"verbose", 'v', CLI_FLAG, NULL, "show what it waits for (default: only on a terminal)", NULL},
    END_OPTIONS,
};

#define COMMAND_OPTIONS                                                            \
    {"env", 'e', CLI_LIST, "NAME=VALUE", "set a variable; may be repeated", NULL}, \
        {"cwd", 'C', CLI_TEXT, "DIR", "directory in the box to start in", NULL},   \
    {                                                                              \
        "as", 0, CLI_TEXT, "USER", "user in the box to run as", NULL               \
    }

/* Whose box it is stands in their ID, so that the word of docker is free for what it means there. */
#define DOCKER_USER                                           \
    {                                                         \
        "user", 0, CLI_TEXT, "USER", "the same as --as", NULL \
    }

static const struct cli_option exec_options[] = {
    COMMAND_OPTIONS,
    DOCKER_USER,
    {"interactive", 'i', CLI_FLAG, NULL, "pass standard input to the command", NULL},
    {"tty", 't', CLI_FLAG, NULL, "give the command a terminal", NULL},
    {"timeout", 0, CLI_DURATION, "TIME", "end the command after this time, exit 124", NULL},
    {"detach", 'd', CLI_FLAG, NULL, "do not wait: print the number of the job", NULL},
    END_OPTIONS,
};

static const struct cli_option shell_options[] = {COMMAND_OPTIONS, DOCKER_USER, END_OPTIONS};

static const struct cli_option logs_options[] = {
    {"follow", 'f', CLI_FLAG, NULL, "continue with what the job writes from now on", NULL},
    END_OPTIONS,
};

static const struct cli_option kill_options[] = {
    {"signal", 0, CLI_TEXT, "NAME", "send this signal only, like INT (default: end the job)", NULL},
    END_OPTIONS,
};

static const struct cli_option cp_options[] = {
    {"quiet", 'q', CLI_FLAG, NULL, "no progress on a terminal", NULL},
    END_OPTIONS,
};

static const struct cli_option token_options[] = {
    {"scope", 0, CLI_TEXT, "SCOPES", "create: read, use, operate, or some of them (default: use)",
     "read use operate read,use"},
    {"user", 'u', CLI_TEXT, "USER", "create: for this user only", NULL},
    {"profile", 'p', CLI_TEXT, "NAME", "create: for this profile only", NULL},
    {"id", 0, CLI_TEXT, "ID", "create: for this sandbox only, as who has it", NULL},
    {"ttl", 0, CLI_DURATION, "TIME", "create: valid for this time (default: until revoked)", NULL},
    END_OPTIONS,
};

static const struct cli_option snapshot_options[] = {
    {"user", 'u', CLI_TEXT, "USER", "ID is a thread of this user", NULL},
    {"name", 0, CLI_TEXT, "NAME", "create, import: a name for people", NULL},
    {"all", 0, CLI_FLAG, NULL, "ls: hibernated sandboxes too", NULL},
    {"format", 0, CLI_TEXT, "FORMAT", "export: sandpool, for import, or oci, a container image",
     "sandpool oci"},
    {"profile", 'p', CLI_TEXT, "NAME", "import: for this profile, not the one in the file", NULL},
    {"any-base", 0, CLI_FLAG, NULL, "import: also when it was made on another base", NULL},
    {"quiet", 'q', CLI_FLAG, NULL, "no progress on a terminal", NULL},
    END_OPTIONS,
};

static const struct cli_option fork_options[] = {
    {"user", 'u', CLI_TEXT, "USER", "ID is a thread of this user", NULL},
    {"count", 0, CLI_NUMBER, "N", "how many (default: 1, or one for each --thread)", NULL},
    {"thread", 0, CLI_LIST, "THREAD", "the thread of a new sandbox; may be repeated", NULL},
    {"wait", 'w', CLI_DURATION, "TIME", "wait this long (default: the daemon's)", NULL},
    {"ttl", 0, CLI_DURATION, "TIME", "length of the leases (default: the profile's)", NULL},
    END_OPTIONS,
};

static const struct cli_option doctor_options[] = {
    {"config", 'c', CLI_TEXT, "FILE",
     "without a daemon: configuration to check (default: that of the service)", NULL},
    END_OPTIONS,
};

static const struct cli_option quote_options[] = {
    {"for", 0, CLI_DURATION, "TIME", "how long the lease lasts (default: 1h)", NULL},
    END_OPTIONS,
};

static const struct cli_option usage_options[] = {
    {"by", 0, CLI_TEXT, "WHAT",
     "add up by user, thread, sandbox, profile, principal, with commas between (default: user)",
     NULL},
    {"intervals", 0, CLI_FLAG, NULL, "each interval instead of sums", NULL},
    {"since", 0, CLI_DURATION, "TIME", "only time after this long ago (30d)", NULL},
    {"until", 0, CLI_DURATION, "TIME", "only time before this long ago", NULL},
    {"user", 'u', CLI_TEXT, "USER", "only of this user", NULL},
    {"thread", 0, CLI_TEXT, "THREAD", "only of this thread", NULL},
    {"id", 0, CLI_TEXT, "ID", "only of this sandbox: id or USER/THREAD", NULL},
    {"profile", 'p', CLI_TEXT, "NAME", "only of this profile", NULL},
    {"principal", 0, CLI_TEXT, "PRINCIPAL", "only of this caller: a uid, or 16 hex digits", NULL},
    {"cursor", 0, CLI_TEXT, "CURSOR", "the next page of intervals", NULL},
    {"csv", 0, CLI_FLAG, NULL, "as a table for other programs", NULL},
    END_OPTIONS,
};

static const struct cli_option release_options[] = {
    {"user", 'u', CLI_TEXT, "USER", "ID is a thread of this user", NULL},
    {"generation", 'g', CLI_NUMBER, "N", "only if the id is still bound to this box", NULL},
    {"destroy", 0, CLI_FLAG, NULL, "destroy it instead of keeping it for its thread", NULL},
    END_OPTIONS,
};

static const struct cli_option network_options[] = {
    {"user", 'u', CLI_TEXT, "USER", "ID is a thread of this user", NULL},
    END_OPTIONS,
};

static const struct cli_option renew_options[] = {
    {"user", 'u', CLI_TEXT, "USER", "ID is a thread of this user", NULL},
    {"generation", 'g', CLI_NUMBER, "N", "only if the id is still bound to this box", NULL},
    {"ttl", 0, CLI_DURATION, "TIME", "new duration, counted from now (default: the profile's)",
     NULL},
    END_OPTIONS,
};

static const struct cli_option why_options[] = {
    {"user", 'u', CLI_TEXT, "USER", "ID is a thread of this user", NULL},
    {"since", 0, CLI_DURATION, "TIME", "only what happened since, like 2h (default: all)", NULL},
    END_OPTIONS,
};

static const struct cli_option get_options[] = {
    {"user", 'u', CLI_TEXT, "USER", "ID is a thread of this user", NULL},
    {"alive", 'a', CLI_FLAG, NULL, "ask the backend whether it is alive", NULL},
    {"stats", 0, CLI_FLAG, NULL, "ask what it has used: processor, memory, network, disk", NULL},
    END_OPTIONS,
};

static const struct cli_option ls_options[] = {
    {"state", 0, CLI_TEXT, "STATE", "only boxes in this state",
     "starting blank leased parked deleting hibernated"},
    {"profile", 'p', CLI_TEXT, "NAME", "only boxes of this profile", NULL},
    {"user", 'u', CLI_TEXT, "USER", "only boxes of this user", NULL},
    {"thread", 0, CLI_TEXT, "THREAD", "only boxes of this thread", NULL},
    {"principal", 0, CLI_TEXT, "PRINCIPAL",
     "only boxes of this caller: a uid, or 16 hex digits as --json shows them", NULL},
    {"leased-for", 0, CLI_DURATION, "TIME", "only leases that have lasted so long, like 2h", NULL},
    {"idle-for", 0, CLI_DURATION, "TIME", "only leased boxes that have been idle so long", NULL},
    {"leaking", 0, CLI_FLAG, NULL, "only leases that last longer than leak_after_s", NULL},
    {"by", 0, CLI_TEXT, "WHAT", "add up how many each of these has, those with the most first",
     "user principal profile"},
    {"sort", 0, CLI_TEXT, "KEY", "in this order: times from the longest on, names by the alphabet",
     "age leased idle user principal profile state"},
    {"limit", 'n', CLI_NUMBER, "N", "at most this many (default: all)", NULL},
    {"quiet", 'q', CLI_FLAG, NULL, "print ids only", NULL},
    END_OPTIONS,
};

static const struct cli_option destroy_options[] = {
    {"user", 'u', CLI_TEXT, "USER", "ID is a thread of this user", NULL},
    {"generation", 'g', CLI_NUMBER, "N", "only if the id is still bound to this box", NULL},
    {"quick", 0, CLI_FLAG, NULL, "do not wait until it is gone", NULL},
    {"all", 0, CLI_FLAG, NULL, "all sandboxes that you own, or all for an operator", NULL},
    {"where", 0, CLI_LIST, "KEY=VALUE",
     "with --all: only those; state, profile, user, thread, principal, leased-for, idle-for, leaking=1; "
     "may be repeated",
     NULL},
    {"dry-run", 0, CLI_FLAG, NULL, "with --all: show which, destroy nothing", NULL},
    {"yes", 'y', CLI_FLAG, NULL, "with --all: do not ask", NULL},
    END_OPTIONS,
};

static const struct cli_option events_options[] = {
    {"since", 0, CLI_TEXT, "ID|TIME",
     "start after this event id, or this long ago (2h); 0: at the oldest", NULL},
    {"until", 0, CLI_DURATION, "TIME", "only events that are at least this old", NULL},
    {"event", 0, CLI_TEXT, "KIND", "only this kind of event, like leased or lost", NULL},
    {"box", 0, CLI_TEXT, "BOX", "only events of this box_id", NULL},
    {"id", 0, CLI_TEXT, "ID", "only of this sandbox: id, box:BOX or USER/THREAD", NULL},
    {"user", 'u', CLI_TEXT, "USER", "only events of this user's boxes", NULL},
    {"thread", 0, CLI_TEXT, "THREAD", "only events of this thread's boxes", NULL},
    {"limit", 'n', CLI_NUMBER, "N", "end after this many events", NULL},
    {"no-follow", 0, CLI_FLAG, NULL, "end after the events so far", NULL},
    END_OPTIONS,
};

static const struct cli_option top_options[] = {
    {"once", 0, CLI_FLAG, NULL, "print it once, as without a terminal", NULL},
    {"interval", 0, CLI_DURATION, "TIME", "ask the daemon this often (default: 1s)", NULL},
    END_OPTIONS,
};

#define MODE_OPTIONS                                                                             \
    {"profile", 'p', CLI_TEXT, "NAME", "only boxes of this profile", NULL},                      \
    {                                                                                            \
        "message", 'm', CLI_TEXT, "TEXT", "what callers who are refused read (up to 160 bytes)", \
            NULL                                                                                 \
    }

static const struct cli_option pause_options[] = {
    {"user", 'u', CLI_TEXT, "USER", "ID is a thread of this user", NULL},
    MODE_OPTIONS,
    END_OPTIONS,
};

static const struct cli_option resume_options[] = {
    {"user", 'u', CLI_TEXT, "USER", "ID is a thread of this user", NULL},
    {"profile", 'p', CLI_TEXT, "NAME", "only boxes of this profile", NULL},
    END_OPTIONS,
};

static const struct cli_option drain_options[] = {
    MODE_OPTIONS,
    {"evict-parked", 0, CLI_FLAG, NULL, "destroy the boxes kept for their threads", NULL},
    END_OPTIONS,
};

const struct cli_command cli_commands[] = {
    {"acquire", "[THREAD]", 0, 1, NULL, "get a sandbox, warm if possible",
     "The same thread gets the same box again, as long as it exists. Without a thread you "
     "get a box that only you use, with a random id.",
     acquire_options,
     "sandpool acquire thread-1               # id, url and how it was found\n"
     "sandpool acquire -u ana t7 -p big -w 5s # with a profile, waits at most 5 seconds\n"
     "sandpool acquire t7 --env LANG=C --mount /srv/sets:/sets:ro --memory 512M\n"
     "eval \"$(sandpool acquire t7 --export)\"  # $SANDBOX_ID, $SANDBOX_URL, $SANDBOX_TOKEN\n",
     cmd_acquire},
    {"run", "COMMAND...", 1, CLI_REST, NULL, "run one command in a box",
     "Gets a box, runs the command in it with the input and output of this program, releases the\n"
     "box and exits with the code of the command. Without --thread the box is destroyed; a\n"
     "thread's box is kept for its thread.\n"
     "Signals are passed on; a second SIGINT ends everything at once.",
     run_options,
     "sandpool run -- python3 -c 'print(6*7)'\n"
     "tar c . | sandpool run --thread t7 -- tar x   # files into the box of a thread\n"
     "sandpool run -t bash                          # a shell\n",
     cmd_run},
    {"exec", "ID COMMAND...", 2, CLI_REST, "ID", "run a command in a sandbox that exists",
     "The command has no input unless -i is given. It ends with this program; --detach leaves it to\n"
     "itself.",
     exec_options,
     "sandpool exec thread-1 -- python3 -V\n"
     "sandpool exec -it thread-1 bash\n"
     "sandpool exec -i ana/t7 -- tar x < files.tar\n"
     "sandpool exec -d thread-1 -- sh -c 'make > make.log'   # prints a job, see 'sandpool logs'\n",
     cmd_exec},
    {"shell", "ID", 1, 1, "ID", "open a shell in a sandbox", NULL, shell_options,
     "sandpool shell thread-1\nsandpool shell ana/t7 --as root\n", cmd_shell},
    {"jobs", "ID", 1, 1, "ID", "list what runs in a sandbox and has run there", NULL, no_options,
     "sandpool jobs thread-1\n", cmd_jobs},
    {"logs", "ID [JOB]", 1, 2, "ID", "show the output of a job",
     "Without JOB it is the newest. Standard output and standard error come as such.", logs_options,
     "sandpool logs thread-1\nsandpool logs -f thread-1 7\n", cmd_logs},
    {"kill", "ID JOB", 2, 2, "ID", "end a job",
     "SIGTERM, after two seconds SIGKILL, for its descendants, too.", kill_options,
     "sandpool kill thread-1 7\nsandpool kill thread-1 7 --signal INT\n", cmd_kill},
    {"cp", "FROM TO", 2, 2, NULL, "copy files and directories into a sandbox or out of it",
     "One of the two is ID:PATH. Relative paths in a box begin in /workspace. '-' is the standard\n"
     "input or output. A directory that exists gets what is copied as an entry.",
     cp_options,
     "sandpool cp data.csv thread-1:\n"
     "sandpool cp ./project ana/t7:/workspace/project\n"
     "sandpool cp thread-1:result.json .\n"
     "sandpool cp thread-1:/var/log/app.log - | tail\n",
     cmd_cp},
    {"port-forward", "ID PORT...", 2, CLI_OPERANDS_MAX, "ID",
     "reach ports of a sandbox on this machine",
     "PORT is a port in the box, HERE:PORT another one here, :PORT any free one. It listens on\n"
     "127.0.0.1 until it is interrupted, for every user of this machine.",
     no_options,
     "sandpool port-forward thread-1 8000\nsandpool port-forward thread-1 9000:80 :5432\n",
     cmd_port_forward},
    {"snapshot", "create ID | ls | rm SNAPSHOT... | export SNAPSHOT [FILE] | import FILE", 1,
     CLI_OPERANDS_MAX, "create ls rm export import", "keep the files of a sandbox, for new ones",
     "'create' prints the snapshot's id; the sandbox stands still for a moment and goes on. Memory and\n"
     "processes are not kept. 'rm' breaks no sandbox that was made from it. 'export' writes one as one\n"
     "file, by default SNAPSHOT.tar.zst, which 'import' makes a new one of, here or elsewhere; FILE may\n"
     "be - (standard output or input). With '--format oci' it is a container image with all that the\n"
     "sandbox's programs need (SNAPSHOT.tar), for 'docker load' and others; 'import' does not take it.",
     snapshot_options,
     "sandpool snapshot create thread-1 --name ready\n"
     "sandpool acquire thread-2 --snapshot 0123456789abcdef   # a box with these files\n"
     "sandpool snapshot ls\n"
     "sandpool snapshot rm 0123456789abcdef\n"
     "sandpool snapshot export 0123456789abcdef ready.tar.zst\n"
     "sandpool snapshot export 0123456789abcdef - --format oci | docker load\n"
     "sandpool snapshot import ready.tar.zst --name ready\n",
     cmd_snapshot},
    {"fork", "ID", 1, 1, "ID", "make sandboxes with the files of one",
     "Prints the id of each. The sandbox stands still for a moment and goes on. Memory and processes\n"
     "are not copied.",
     fork_options,
     "sandpool fork thread-1 --count 3\n"
     "sandpool fork thread-1 --thread try-1 --thread try-2\n",
     cmd_fork},
    {"release", "ID", 1, 1, "ID", "release a sandbox",
     "It is kept for its thread for a while (the profile's park_timeout_s), then destroyed.",
     release_options,
     "sandpool release thread-1                    # by its thread: keep it for that thread\n"
     "sandpool release fe0dc8182dec7b77 --destroy  # by its id: it is not needed again\n",
     cmd_release},
    {"network", "ID [ENTRY...]", 1, CLI_OPERANDS_MAX, "ID", "change what a sandbox may reach",
     "Names, all names below one (*.example.com), IPv4 networks; without any it reaches nothing. Only where the profile "
     "has network.allow, and within that.",
     network_options,
     "sandpool network fe0dc8182dec7b77 pypi.org files.pythonhosted.org\n"
     "sandpool network thread-1                    # nothing any more\n",
     cmd_network},
    {"renew", "ID", 1, 1, "ID", "extend a lease", NULL, renew_options,
     "sandpool renew fe0dc8182dec7b77 --ttl 2h\n", cmd_renew},
    {"get", "ID", 1, 1, "ID", "show one sandbox", NULL, get_options,
     "sandpool get fe0dc8182dec7b77 --alive\n"
     "sandpool get fe0dc8182dec7b77 --stats\n"
     "sandpool get box:0123456789abcdef      # a box that has no owner\n",
     cmd_get},
    {"ls", "", 0, 0, NULL, "list sandboxes",
     "PRINCIPAL is who acquired it (a user of this machine or a token), LEASED how long its lease lasts by\n"
     "now, LAST what was done with it last through the daemon, how long ago, and by which process or from\n"
     "where.",
     ls_options,
     "sandpool ls --state leased --user ana\n"
     "sandpool ls --by principal                # who has how many\n"
     "sandpool ls --leased-for 2h --sort idle   # who has forgotten one\n"
     "sandpool ls --json | jq -r '.sandboxes[].sandbox_url'\n",
     cmd_ls},
    {"destroy", "[ID...]", 0, CLI_OPERANDS_MAX, "ID", "destroy sandboxes", NULL, destroy_options,
     "sandpool destroy thread-1 --user ana\n"
     "sandpool destroy fe0dc8182dec7b77\n"
     "sandpool destroy box:0123456789abcdef --quick\n"
     "sandpool rm --all                      # shows which, and asks first\n"
     "sandpool rm --all --where user=ana --where idle-for=2h --dry-run\n",
     cmd_destroy},
    {"pool", "", 0, 0, NULL, "show the state of the pool", NULL, no_options,
     "sandpool pool\nsandpool pool --json | jq .by_state\n", cmd_pool},
    {"top", "", 0, 0, NULL, "watch the pool, its acquires and its boxes",
     "Keys: arrows, Enter all about a box, s a shell in it, d destroy it, p pause its profile, o sort,\n"
     "/ filter, Tab boxes or profiles, ? help, q leave. With --json it prints once what it knows.",
     top_options, "sandpool top\nsandpool top --once\nsandpool top --json | jq .hit_rate\n",
     cmd_top},
    {"profile", "ls|show [NAME]", 1, 2, "ls show", "show what profiles there are",
     "ls has a line for each: what its boxes are like, and why none can be had if that is so. show has all of\n"
     "one.",
     no_options,
     "sandpool profile ls\n"
     "sandpool profile show small\n"
     "sandpool profile show small --json | jq .limits\n",
     cmd_profile},
    {"quote", "[PROFILE]", 0, 1, NULL, "show what a lease would cost",
     "By the price in the configuration of the profile (default: default). What is paid by use is shown with its\nrate and is not in the total.",
     quote_options, "sandpool quote big --for 8h\n", cmd_quote},
    {"budget", "ls | show USER | set USER AMOUNT | credit USER AMOUNT", 1, 3, "ls show set credit",
     "show and change what users may spend",
     "For operators. 'set' gives a user an amount of its own for each period, 'set USER default' takes it\n"
     "away; 'credit' adds to what it may spend in this period. See budgets: of the configuration.",
     no_options,
     "sandpool budget set ana 50\n"
     "sandpool budget credit ana 12.50\n"
     "sandpool budget ls\n",
     cmd_budget},
    {"token", "ls | create NAME | revoke TOKEN", 1, 2, "ls create revoke",
     "make, list and revoke tokens for callers on TCP",
     "For operators. Scopes: read sees what operators see and changes nothing; use acquires and uses sandboxes of its\n"
     "own; operate may do everything. Tokens of one NAME share their sandboxes. A new token is printed once, on\n"
     "stdout; revoke takes its id, or a name for all of that name, and is valid at once.",
     token_options,
     "sandpool token create ci --scope use --ttl 30d > ci.token\n"
     "sandpool token create grafana --scope read\n"
     "sandpool token ls\n"
     "sandpool token revoke ci\n",
     cmd_token},
    {"usage", "", 0, 0, NULL, "show metered time and what it cost",
     "Time in which boxes were leased, parked and paused, until now, by the prices that were valid then.",
     usage_options,
     "sandpool usage --since 30d\n"
     "sandpool usage --by user,profile --csv > usage.csv\n"
     "sandpool usage --intervals --user ana --thread t7\n",
     cmd_usage},
    {"events", "", 0, 0, NULL, "follow the events of the pool",
     "One line per event; with --json one object per line. After a broken connection it "
     "continues where it ended. Older events are read from the database (store.events_max).",
     events_options,
     "sandpool events                        # from now on\n"
     "sandpool events --since 0 --no-follow  # all stored events\n"
     "sandpool events --since 2h --user ana --thread t7 --no-follow\n",
     cmd_events},
    {"why", "ID", 1, 1, "ID", "show what happened to a sandbox, and why",
     "The life of the sandbox of an id or a thread from the audit trail, as sentences, also after its\n"
     "end; acquires that were refused, too. box:ID also has what was before its first owner.",
     why_options,
     "sandpool why thread-1\n"
     "sandpool why ana/t7 --since 2h\n"
     "sandpool why box:0123456789abcdef\n",
     cmd_why},
    {"backup", "FILE", 1, 1, NULL, "copy the database to a new file",
     "A consistent copy, made while the daemon runs. The file contains the tokens of boxes; to use\n"
     "it, replace sandpool.db by it while no daemon runs.",
     no_options, "sandpool backup /var/backups/sandpool-$(date +%F).db\n", cmd_backup},
    {"pause", "[ID]", 0, 1, "ID", "stop new leases until resume, or pause one sandbox",
     "With an ID: its processes stand still and use no CPU; its lease stays, and the next call that\n"
     "needs it lets it go on.",
     pause_options,
     "sandpool pause -m 'back at 14:00'\n"
     "sandpool pause --profile gpu\n"
     "sandpool pause thread-1\n",
     cmd_pause},
    {"resume", "[ID]", 0, 1, "ID", "serve again after pause or drain, or let one sandbox go on",
     "Each profile that was paused by itself is resumed by itself.", resume_options,
     "sandpool resume\nsandpool resume --profile gpu\nsandpool resume thread-1\n", cmd_resume},
    {"drain", "", 0, 0, NULL, "refuse new leases, remove ready boxes",
     "Leased boxes stay until they are released or expire. The mode survives a restart of the daemon.",
     drain_options,
     "sandpool drain --evict-parked\n"
     "sandpool drain --profile gpu -m 'the cards are replaced today'\n",
     cmd_drain},
    {"reconcile", "", 0, 0, NULL, "compare the pool with its backends now", NULL, no_options,
     "sandpool reconcile\n", cmd_reconcile},
    {"reload", "", 0, 0, NULL, "read the configuration again",
     "All of it is applied; after an error, which is printed, nothing changes.", no_options,
     "sandpool reload\n", cmd_reload},
    {"doctor", "", 0, 0, NULL, "check what boxes need on this machine",
     "Asks the daemon; if none runs, 'sandpoold --doctor' does the checks. Exits 1 if no box can be\n"
     "made.",
     doctor_options, "sandpool doctor\nsandpool doctor --json | jq .ok\n", cmd_doctor},
    {"version", "", 0, 0, NULL, "show the versions of this program and the daemon", NULL,
     no_options, "sandpool version\n", cmd_version},
    {"completion", "SHELL", 1, 1, "bash zsh fish", "print the completion for a shell", NULL,
     no_options,
     "source <(sandpool completion bash)\n"
     "sandpool completion fish > ~/.config/fish/completions/sandpool.fish\n",
     cmd_completion},
    {"help", "[COMMAND]", 0, 1, NULL, "show help", NULL, no_options, "sandpool help acquire\n",
     cmd_help},
    {.name = NULL},
};
