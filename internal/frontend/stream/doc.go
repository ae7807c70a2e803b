// Package stream carries messages to one client.
//
// Any goroutine may put messages into a [Stream]. A [Conn] writes them out with a
// [Writer], as server-sent events or as lines. Notifications that only say that
// something changed coalesce while they wait.
//
// The streams of a legacy session are kept in a [ReplayStore]: such a stream outlives
// its connections. It numbers its events and records them in an [EventLog], and a
// client whose connection broke resumes it with Last-Event-ID.
//
// # Guarantees
//
// Nothing waits for a client that does not read, except [Stream.SendWait]. A client
// that falls behind by more than [MaxQueue] bytes loses its connection, or on stdio,
// where there is only one connection, messages that are not responses.
//
// A resumed stream carries every event after the one that the client names, once and
// in order, or the resumption is refused because the log has forgotten some of them.
//
// A stream that belongs to no call can move to another replica: [Stream.Move] ends it and returns
// the missed events, and [ReplayStore.Continue] continues with these events there, as another
// stream.
//
// The order of locks is: ReplayStore, Stream, EventLog.
package stream
