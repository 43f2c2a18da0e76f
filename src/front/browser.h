/* browser.h - requests that browsers make. Whoever can connect to the Unix socket may call the API without a token, so a
 * tunnel to it (ssh -L) gives that right to every page that is open in the browser at its other end. Such requests are
 * recognised by what browsers say of them and scripts cannot change, and refused. So are those of a browser that has a
 * certificate of tls.client_ca, which it shows for every page. A token has to be sent, which no browser does for another page. */
#ifndef FRONT_BROWSER_H
#define FRONT_BROWSER_H

#include "config/config.h"
#include "http/http.h"

/* SP_FORBIDDEN: on behalf of a page that is not ours. `is_relayed`: what a box answers is passed on as it is, which others
 * may do for browsers of theirs as well. */
MUST_CHECK int front_check_browser(const struct http_exchange *ex, const struct config *c,
                                   bool is_relayed, struct err *err);

#endif
