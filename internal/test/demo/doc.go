// Package demo holds the script behind make demo.
package demo
