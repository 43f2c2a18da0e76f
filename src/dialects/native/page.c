/* page.c - the web page, if the configuration has it. */
#include "dialects/native/internal.h"
#include "ui/ui.h"

void api_ui(struct http_exchange *ex)
{
    if (engine_config(api_of(ex)->engine)->ui.enabled)
        ui_serve(ex);
    else
        http_reply_error(ex, SP_NOT_FOUND, "the web page is switched off (ui.enabled)", 0);
}
