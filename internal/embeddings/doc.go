// Package embeddings adds meaning to the search for tools: it asks an OpenAI-compatible server
// for the vectors of tools and of queries, and ranks tools by how near they are to a query.
//
// Vectors of tools are made in the background and kept in a file, so each definition is sent
// once. The vector of a query is awaited for a short time. While the server does not answer,
// searches continue without this ranking. Queries and their vectors are not kept.
package embeddings
