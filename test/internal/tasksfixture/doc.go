// Command tasksfixture is an MCP server whose tools run as tasks, in the form of either era: the tasks of 2025-11-25 (basic/utilities/tasks) and the
// extension io.modelcontextprotocol/tasks of 2026-07-28. It has the tools that the conformance suite's tasks scenarios ask for.
//
//	tasksfixture [-era legacy|modern] [-http ADDR]
//
// Without -http it speaks over standard input and output. Without -era it speaks each era to whoever asks in it.
//
// Tools that run as tasks ask their questions in the way of the era: as requests on the stream of tasks/result, or as inputRequests in tasks/get.
// It tells of every change of a task: to the legacy session that made it, and to the modern subscriptions that name it.
//
// The server shares no code with the gateway, on purpose. It ends when its input does, or when it is killed.
package main
