#!/bin/sh
# Starts a shuffled of its own, counts words through it with two producer and two
# consumer processes, and stops it again. Usage: run.sh DIRECTORY-OF-BINARIES
set -eu
bin=$1
dir=$(mktemp -d)
daemon=
cleanup() {
	status=$?
	if [ -n "$daemon" ]; then
		kill -TERM "$daemon" 2>/dev/null || true
		wait "$daemon" || true
	fi
	[ "$status" -eq 0 ] || { echo "--- daemon's log"; cat "$dir/log"; }
	rm -rf "$dir"
	exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

"$bin/shuffled" serve --socket "$dir/shuffled.sock" --memory 256MiB --metrics-address "" 2>"$dir/log" &
daemon=$!
tries=0
until [ -S "$dir/shuffled.sock" ]; do
	kill -0 "$daemon" 2>/dev/null || { echo "shuffled did not start"; exit 1; }
	tries=$((tries + 1))
	[ "$tries" -lt 100 ] || { echo "shuffled did not listen within ten seconds"; exit 1; }
	sleep 0.1
done
echo "shuffled $("$bin/shuffled" version) serves at $dir/shuffled.sock"
"$bin/bench" wordcount --socket "$dir/shuffled.sock" --producers 2 --consumers 2
