/* main.c - the process around cli_main(). */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    return cli_main(argc, (const char *const *) argv, stdout, stderr);
}
