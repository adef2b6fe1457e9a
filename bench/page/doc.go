// Package page makes one HTML page of results files: plots, tables and the
// machines they are of.
//
// The page needs nothing else: no scripts, fonts or network, so that it works
// from a disk and in a mail. Text from files is escaped, and the page's own policy
// forbids scripts and loading. The same files make the same page, byte for byte.
//
// A file becomes a section of each kind in section.go that applies to it; a new
// kind is one line there and a file with the function that returns its blocks.
// Plots are drawn by this package as SVG with text as text: lines, bars, logarithmic
// axes, and an axis of nines for latencies.
package page
