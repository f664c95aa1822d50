package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/tidemark/tidemark/compat/kafka"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	rounds := flag.Int("rounds", 3, "how often each cell runs, on a cluster of its own; the median is printed")
	scale := flag.Float64("scale", 1, "multiplies the work of each cell")
	only := flag.String("cells", "", "run only the cells whose name matches this regular expression")
	names := flag.String("brokers", "tidemark,kafka", "which brokers to measure")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tidemark-cluster-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var makers []*maker
	for _, name := range strings.Split(*names, ",") {
		m, err := makerOf(ctx, name, dir)
		if err != nil {
			return err
		}
		makers = append(makers, m)
	}
	t := table{values: make(map[string]map[string][]float64)}
	defer t.print()
	for round := range *rounds {
		for _, cell := range cells() {
			if !match.MatchString(cell.name) {
				continue
			}
			for _, m := range makers {
				if err := ctx.Err(); err != nil {
					return err
				}
				figures, err := measure(ctx, m, cell, filepath.Join(dir, fmt.Sprintf("%s-%s-%d", m.name, cell.name, round)), *scale)
				if err != nil {
					fmt.Fprintf(os.Stderr, "%s: %s: %v\n", m.name, cell.name, err)
					continue
				}
				for _, f := range figures {
					t.add(m.name, f)
					fmt.Fprintf(os.Stderr, "round %d: %s: %s %.3g %s\n", round+1, m.name, f.name, f.value, f.unit)
				}
			}
		}
	}
	return nil
}

func measure(ctx context.Context, m *maker, cell cell, dir string, scale float64) ([]figure, error) {
	c, err := m.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer c.stop()
	return cell.run(ctx, c, scale)
}

func makerOf(ctx context.Context, name, dir string) (*maker, error) {
	switch name {
	case "tidemark":
		bin := filepath.Join(dir, "tidemark-bin")
		out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, "github.com/tidemark/tidemark/cmd/tidemark").CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("build: %w\n%s", err, out)
		}
		return tidemark(bin), nil
	case "kafka":
		jars, err := kafka.Resolve(ctx)
		if err != nil {
			return nil, err
		}
		return apacheKafka(jars), nil
	}
	return nil, fmt.Errorf("no broker called %q", name)
}

// table collects the figures by name and broker.
type table struct {
	order  []figure
	values map[string]map[string][]float64
}

func (t *table) add(broker string, f figure) {
	if t.values[f.name] == nil {
		t.values[f.name] = make(map[string][]float64)
		t.order = append(t.order, f)
	}
	t.values[f.name][broker] = append(t.values[f.name][broker], f.value)
}

// print writes the medians and what was to be reached.
func (t *table) print() {
	fmt.Print("| figure | target | Tidemark | Apache Kafka | ratio | |\n|---|---|---|---|---|---|\n")
	for _, f := range t.order {
		ours, theirs := median(t.values[f.name]["tidemark"]), median(t.values[f.name]["kafka"])
		ratio, verdict := "–", ""
		if ours > 0 && theirs > 0 {
			ratio, verdict = fmt.Sprintf("%.3f", ours/theirs), "met"
			if ours > f.atMost*theirs {
				verdict = "**missed**"
			}
		}
		fmt.Printf("| %s | ≤ %.3g | %.3g %s | %.3g %s | %s | %s |\n", f.name, f.atMost, ours, f.unit, theirs, f.unit, ratio, verdict)
	}
}

func median(vs []float64) float64 {
	if len(vs) == 0 {
		return 0
	}
	vs = slices.Clone(vs)
	slices.Sort(vs)
	return vs[len(vs)/2]
}
