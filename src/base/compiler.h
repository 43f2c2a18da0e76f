/* compiler.h - attributes and the few macros every file may use. */
#ifndef BASE_COMPILER_H
#define BASE_COMPILER_H

#include <assert.h>
#include <stddef.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))
#define UNUSED __attribute__((unused))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The object of type `type` whose field `member` is at `ptr`. */
#define container_of(ptr, type, member) \
    ((type *) (void *) ((char *) (void *) (ptr) -offsetof(type, member)))

#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))

#define NS_PER_US 1000ULL
#define NS_PER_MS 1000000ULL
#define NS_PER_S 1000000000ULL

#endif
