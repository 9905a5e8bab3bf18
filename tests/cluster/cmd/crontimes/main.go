// SPDX-License-Identifier: Apache-2.0

// crontimes says when CronJob's own parser, github.com/robfig/cron/v3, would run a schedule: the table that
// gpubench.schedule.cron is held against. It reads lines of "expression;zone;from" and adds the next moments.
//
//	go run ./cmd/crontimes < ../core/robfig_cron.csv > /tmp/new.csv
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const moments = 5

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ";")
		if len(fields) < 3 || fields[0] == "expression" {
			fmt.Println(lines.Text())
			continue
		}
		fmt.Println(strings.Join(append(fields[:3], next(fields[0], fields[1], fields[2])), ";"))
	}
}

func next(expression, zone, from string) string {
	location, err := time.LoadLocation(zone)
	if err != nil {
		return "refused"
	}
	// As pkg/controller/cronjob/cronjob_controllerv2.go, formatSchedule, does.
	schedule, err := cron.ParseStandard(fmt.Sprintf("TZ=%s %s", location, expression))
	if err != nil {
		return "refused"
	}
	at, err := time.Parse(time.RFC3339, from)
	if err != nil {
		return "refused"
	}
	found := make([]string, 0, moments)
	for len(found) < moments {
		at = schedule.Next(at)
		if at.IsZero() {
			return "refused"
		}
		found = append(found, at.UTC().Format("2006-01-02T15:04Z"))
	}
	return strings.Join(found, " ")
}
