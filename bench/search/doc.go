// Command search measures how well package search finds tools, and how fast.
//
//	go run ./bench/search gather                    # installs the npm servers, lists their tools
//	go run ./bench/search measure                   # our queries over those tools
//	go run ./bench/search measure -mcpproxy DIR     # also the golden set of mcpproxy-go
//	go run ./bench/search measure -metatool DIR     # also the queries of MetaTool
//	go run ./bench/search measure -half tune -failures 20
//	go test ./bench/search -run '^$' -bench .       # time and memory over 10,000 tools
//
// The sets:
//
//   - npm: the definitions that the servers of servers.json list, and queries.json: questions in
//     our own words, each with the tools that answer it. gather installs the packages without
//     their scripts, starts each server with credentials that are not real, and keeps the
//     definitions in the folder of -data. Definitions are not part of this repository;
//     manifest.json says which tools the servers had when the queries were written.
//   - mcpproxy: 45 tools of 7 servers and 47 queries with graded labels. DIR is a clone of
//     https://github.com/smart-mcp-proxy/mcpproxy-go, which reports a recall@5 of 0.68.
//   - metatool: descriptions of plugins and questions of users. DIR is a clone of
//     https://github.com/HowieHwong/MetaTool.
//
// Weights, abbreviations and similar words are chosen on the half of the queries whose text has
// an even hash; figures are reported on the other half. recall@k is the mean over the queries of
// the share of wanted tools among the first k results; of several tools that answer a query
// equally well ("any"), one counts as all. hit@k is the share of queries with a wanted tool
// among the first k, MRR the mean of one divided by the rank of the first.
package main
