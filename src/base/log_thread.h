/* log_thread.h - the log written by a thread of its own: a file on a disk that hangs then stops that thread and not the
 * loop. */
#ifndef BASE_LOG_THREAD_H
#define BASE_LOG_THREAD_H

/* After log_setup(), for sinks that are files. Without a thread (none can be made) the log is written as before. */
void log_thread_start(void);

#endif
