// Command tasksfixture is an MCP server whose tools run as tasks, in both eras: the tasks of 2025-11-25 (basic/utilities/tasks) and the extension
// io.modelcontextprotocol/tasks of 2026-07-28. It has the tools of the conformance suite's tasks scenarios.
//
//	tasksfixture [-era legacy|modern] [-http ADDR]
//
// Without -http it serves standard input and output. Without -era it answers each request in the request's era.
//
// Tools that run as tasks ask questions in the way of the era: as requests on the stream of tasks/result, or as inputRequests in tasks/get.
// The server sends every change of a task to the legacy session that created it, and to the modern subscriptions that name it.
//
// The server shares no code with the gateway, on purpose. It runs until its input ends or it is killed.
package main
