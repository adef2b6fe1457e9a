package page

import (
	stdbytes "bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// layout is what a browser made of the page at some width.
type layout struct {
	Width, ScrollWidth, ClientWidth int
	Plots                           int
	Small                           []string // plots without a size
	Outside                         []string // texts that a plot cuts off
	Overlapping                     []string // texts of a plot that lie over each other
	FontSize                        float64  // of the smallest text of a plot, in pixels
	Tables                          int
	Requests                        []string
	Scripts                         int
}

// frames shows the page at several widths and writes what became of it.
const frames = `<!DOCTYPE html><meta charset="utf-8"><body>
<iframe src="report.html" width="1280" height="800"></iframe>
<iframe src="report.html" width="360" height="640"></iframe>
<iframe src="report.html" width="320" height="568"></iframe>
<pre id="layouts"></pre>
<script>
onload = () => {
  const near = 1.5;
  document.getElementById("layouts").textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, root = page.documentElement;
    const l = {Width: Number(frame.width), ScrollWidth: root.scrollWidth, ClientWidth: root.clientWidth, Plots: 0, Small: [], Outside: [], Overlapping: [],
      FontSize: 1000, Tables: page.querySelectorAll("table").length, Scripts: page.scripts.length,
      Requests: frame.contentWindow.performance.getEntriesByType("resource").map(r => r.name)};
    for (const plot of page.querySelectorAll("svg.plot")) {
      l.Plots++;
      const title = plot.querySelector("title").textContent, box = plot.getBoundingClientRect();
      if (box.width < 200 || box.height < 40) l.Small.push(title);
      const texts = [...plot.querySelectorAll("text")].map(t => ({text: t.textContent, box: t.getBoundingClientRect(), size: parseFloat(getComputedStyle(t).fontSize) * box.width / plot.viewBox.baseVal.width}));
      for (const t of texts) {
        l.FontSize = Math.min(l.FontSize, t.size);
        if (t.box.left < box.left - near || t.box.right > box.right + near || t.box.top < box.top - near || t.box.bottom > box.bottom + near) l.Outside.push(title + ": " + t.text);
        for (const u of texts) {
          if (t !== u && t.box.left < u.box.right - near && u.box.left < t.box.right - near && t.box.top < u.box.bottom - near * 3 && u.box.top < t.box.bottom - near * 3) l.Overlapping.push(title + ": " + t.text + " over " + u.text);
        }
      }
    }
    return l;
  }));
};
</script>`

// browser returns a browser that runs without a screen.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no chromium, chromium-browser or google-chrome on PATH: the page is not tried in a browser")
	return ""
}

// opened returns the document that a browser makes of a file, and what it logs.
func opened(t *testing.T, path string) (document, log string) {
	t.Helper()
	program := browser(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, "--headless=new", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND",
		"--allow-file-access-from-files",
		"--enable-logging=stderr", "--user-data-dir="+filepath.Join(t.TempDir(), "profile"), "--dump-dom",
		"file://"+path)
	var stdout, stderr stdbytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	// A browser has many processes; all of them end.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	require.NoError(t, command.Run(), "%s: %s", program, stderr.String())
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // what it left behind, if anything
	return stdout.String(), stderr.String()
}

func TestPageFitsDesksAndPhonesInABrowser(t *testing.T) {
	folder := t.TempDir()
	page := written(t, append(samples(), Source{strings.Repeat("n", 200) + ".json", sampleOfLongNames()})...)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "report.html"), []byte(page), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "frames.html"), []byte(frames), 0o644))
	document, log := opened(t, filepath.Join(folder, "frames.html"))
	require.NotContains(t, log, "CONSOLE", "the page has no errors")

	match := regexp.MustCompile(`(?s)<pre id="layouts">(.*?)</pre>`).FindStringSubmatch(document)
	require.NotNil(t, match, "%s\n%s", document, log)
	var layouts []layout
	require.NoError(t, json.Unmarshal([]byte(html.UnescapeString(match[1])), &layouts), match[1])
	require.Len(t, layouts, 3)
	for _, l := range layouts {
		at := fmt.Sprintf("at %d pixels", l.Width)
		require.LessOrEqual(t, l.ScrollWidth, l.ClientWidth, "%s: only tables scroll", at)
		require.Equal(t, 2+3+3+5+2, l.Plots, at)
		require.Positive(t, l.Tables, at)
		require.Empty(t, l.Small, at)
		require.Empty(t, l.Outside, at)
		require.Empty(t, l.Overlapping, at)
		require.Greater(t, l.FontSize, 9.5, at)
		require.Empty(t, l.Requests, at)
		require.Zero(t, l.Scripts, at)
	}
}
