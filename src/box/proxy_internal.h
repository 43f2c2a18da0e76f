/* proxy_internal.h - what the files of the proxy share. */
#ifndef BOX_PROXY_INTERNAL_H
#define BOX_PROXY_INTERNAL_H

#include "base/map.h"
#include "box/address.h"
#include "box/proxy.h"
#include "box/proxy_events.h"
#include "box/proxy_load.h"
#include "box/tunnel.h"
#include "loop/httpc.h"

enum { PROXY_HEADERS_MAX = 128, PROXY_REASON_MAX = 160 };

struct box_proxy {
    struct box_proxy_config config;
    struct httpc *http;
    struct map boxes;   /* struct proxy_load: those with requests */
    struct map callers; /* likewise */
    uint64_t passages;  /* those requests */
    uint64_t rounds;    /* of box_proxy_cut_caller() */
    struct list judged; /* of them: those that wait for what became of their box */
    uint64_t held;      /* bytes that calls in other words hold whole (box/aio) */
    bool is_leaving;    /* closes itself after the last */
    bool is_closing;
    void (*on_closed)(void *ctx);
    void *closed_ctx;
};

struct passage {
    struct httpc_request up;
    struct box_proxy *p;
    struct http_exchange *ex; /* NULL: the client has gone */
    struct proxy_load *box;
    struct proxy_load *caller;
    struct list_node link; /* of the box's */
    struct list_node caller_link;
    struct tunnel *upgrade; /* NULL: none */
    uint64_t round;         /* the last that looked at it */
    struct rt_timer timer;
    uint64_t moved_ns; /* when something last came from either side */
    uint64_t idle_ns;
    struct buf url;
    char local[BOX_LOCAL_MAX]; /* "": none */
    struct buf text;           /* of the headers */
    const char *headers[PROXY_HEADERS_MAX + 4];
    uint16_t port;     /* of the box's loopback; 0: its agent */
    struct buf tunnel; /* to the port: the agent's URL */
    char tunnel_key[24];
    char tunnel_auth[BOX_TOKEN_MAX + 32];
    const char *tunnel_headers[2];
    struct box_proxy_loss loss;
    struct list_node judged; /* in the proxy's, while that is found out */
    char reason[PROXY_REASON_MAX];
    enum proxy_stream stream;
    bool is_begun;    /* the answer */
    bool is_bodyless; /* it has none: it is given when it is over */
    bool is_timed_out;
    bool is_no_answer; /* the answer: it is not passed on */
    bool is_foreign;   /* what answers is no agent of ours */
    bool is_torn;      /* a part of an event has been passed on */
    bool has_end;      /* the event `end` has */
    int cut;           /* its caller has the box no longer: why, and `reason`; 0: it has */
    bool is_use;       /* it was begun */
    /* Of those who say something else to the box than their caller said (box/aio); NULL else. */
    void (*fini)(struct passage *g);
    void (*on_cut)(struct passage *g);  /* its box is gone, and no request is under way */
    void (*on_idle)(struct passage *g); /* likewise: nothing moves for too long */
    void (*on_error)(
        struct passage *g); /* answers in place of the box, whose status is 400 or more */
    void (*on_over)(struct passage *g); /* all was answered: instead of being freed */
};

/* passage.c */
/* Zeroed, of `size` bytes: it may be the start of more. NULL: it was too much and has been answered. */
struct passage *passage_new(struct box_proxy *p, struct http_exchange *ex,
                            const struct box_proxy_limits *limits, const struct box_proxy_to *to,
                            size_t size);
/* From now on its box is used. */
void passage_begin(struct passage *g);
void passage_free(struct passage *g);
/* Something came from either side. */
void passage_moved(struct passage *g);
/* It ends when nothing moves, and may outlast a server that is left. */
void passage_watch(struct passage *g);

/* proxy.c */
/* Sends the request with the url and the headers that are set, and gives the answer to the caller. */
void proxy_start(struct passage *g);
/* Answers a request that failed, with nothing said to its caller yet. */
void proxy_refuse(struct passage *g, int result);

/* proxy_life.c: nothing runs any more, or what does is to be cancelled; frees it. */
void proxy_end(struct box_proxy *p);

/* proxy_request.c: false when something in it has no place in a request. */
bool proxy_make_request(struct passage *g, const struct box_proxy_to *to);

/* proxy_loss.c */
/* False when it is no loss, or nobody is to be asked: answer it otherwise. True: it will be answered and freed, or is
 * already. */
bool proxy_loss_begin(struct passage *g, int result);
/* Answers with what became of the box, `reason`, and frees. */
void proxy_loss_conclude(struct passage *g, int code);
/* Nobody can be asked any more: ends all that wait. */
void proxy_loss_stop(struct box_proxy *p);

#endif
