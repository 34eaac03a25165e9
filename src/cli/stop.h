/* Ctrl-C and its kind: how a command that takes a while is asked to end. For every such command. */
#ifndef KVC_CLI_STOP_H
#define KVC_CLI_STOP_H

/* The last signal that asked us to end, 0 while none did: what the parts at work look at. */
extern volatile int kvc_stop_signal;
/* The same, from the second signal on: whoever sent it does not want to wait for anybody. */
extern volatile int kvc_stop_again;

/* From here on SIGINT, SIGTERM and SIGHUP (unless ignored, as below nohup) are noted above and end nothing by
 * themselves, so that a report on what is finished is still written. Writing to a connection or a pipe that was
 * closed is an error, not the end. */
void kvc_stop_catch(void);
/* 130, 143 or 129: of a command that a signal ended. */
int kvc_stop_exit_status(void);

#endif
