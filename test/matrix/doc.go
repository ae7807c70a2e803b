// Package matrix lets real clients use every feature of the protocol with real servers, through the real gateway, in every combination.
//
// expected.md has the tables of the expected results, for people and for the test: a cell has a mark for each client, and the letter of a reason if
// one of the ends cannot express a feature. The test prints each table with the observed results, and fails if they differ from the expected ones.
//
// With -replicas, each gateway is several, see rig.StartGateway.
//
// Every server has its own gateway. The clients use it one after another, so that each client receives the notifications of its own changes.
package matrix
