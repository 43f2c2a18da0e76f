/* stub */
#include "cli/cli.h"
int cmd_doctor(struct cli *c)
{
    (void) c;
    return 0;
}
