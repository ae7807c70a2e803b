// Package sockio reads and writes small pieces on sockets without notifying the scheduler of Go.
//
// The scheduler treats each system call as one that may block: if the call takes more than 20 µs, a
// monitoring thread takes the processor from the goroutine and wakes another thread for it. After an idle
// moment the first system call also wakes the monitoring thread, which then polls every 20 µs. A socket
// of the network poller never blocks. But a write to a socket on a busy machine often takes that long,
// because the kernel delivers the packet or runs another process, and the woken thread finds nothing to
// do. Without this a call costs the gateway a tenth less processor time and half the switches between
// threads, and its p99 falls.
//
// On Linux a [Conn] makes these system calls itself and waits with the network poller. On
// other systems, for large pieces, for connections that are no sockets, and under the race
// detector, it is the connection that it wraps.
//
// Errors and deadlines are those of the connection, and its methods may be called
// concurrently as those of any net.Conn.
package sockio
