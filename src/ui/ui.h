/* ui.h - the web page. It consists of files that are the same for everybody and hold no secret; what it shows it asks the API
 * for, with the rights of who looks at it. */
#ifndef UI_UI_H
#define UI_UI_H

#include "http/http.h"

/* Answers a request for UI_ROOT or what is below it. */
#define UI_ROOT "/ui"
void ui_serve(struct http_exchange *ex);

#endif
