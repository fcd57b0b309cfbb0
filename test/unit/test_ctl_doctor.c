/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl doctor: machines with something wrong, one thing at a time, and what it says to type. */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_doctor.h"
#include "base/clock.h"
#include "test/lib/ctl_world.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define A    "0000:01:00.0"
#define B    "0000:81:00.0"
#define UNIT "/lib/systemd/system/weka-appliance.service"
#define NODE "/sys/devices/system/node"

static struct ctl_world w;
static struct app_conf conf;
static struct ctl_doctor d;

static void node(uint32_t n, const char *cpus, uint32_t huge)
{
	char path[256];

	snprintf(path, sizeof(path), NODE "/node%u/cpulist", n);
	ctl_world_file(&w, path, "%s\n", cpus);
	snprintf(path, sizeof(path), NODE "/node%u/distance", n);
	ctl_world_file(&w, path, n ? "21 10\n" : "10 21\n");
	snprintf(path, sizeof(path), NODE "/node%u/hugepages/hugepages-2048kB/nr_hugepages", n);
	ctl_world_file(&w, path, "%u\n", huge);
	snprintf(path, sizeof(path), NODE "/node%u/hugepages/hugepages-2048kB/free_hugepages", n);
	ctl_world_file(&w, path, "%u\n", huge);
}

/* A file of this user's. */
static void mine(const char *path, mode_t mode)
{
	char full[CTL_PATH_SIZE];

	ctl_world_file(&w, path, "x");
	snprintf(full, sizeof(full), "%s%s", w.root, path);
	cr_assert_eq(chmod(full, mode), 0);
}

/* A machine of two nodes on which all is well: the drive is attached, an ordinary user asks. */
static void make(void)
{
	static char file[] = "drive = mem:64M\nlisten = shm:/run/w\nkey_file = /k\n";
	char why[APP_CONF_WHY];

	ctl_world_make(&w);
	ctl_world_drive(&w, &(struct ctl_world_drive){ A, "vfio-pci", 0, "SER-A", 11, 0 });
	ctl_world_drive(&w, &(struct ctl_world_drive){ B, "nvme", 1, "SER-B", 12, 1 });
	ctl_world_file(&w, "/proc/sys/kernel/osrelease", "6.1.0-28-amd64\n");
	ctl_world_file(&w, "/proc/cmdline",
		       "BOOT_IMAGE=/vmlinuz root=/dev/x intel_iommu=on quiet\n");
	ctl_world_file(&w, "/proc/cpuinfo", "vendor_id\t: GenuineIntel\n");
	ctl_world_file(&w, "/proc/interrupts", " 1: 5 0 IR-IO-APIC 1-edge i8042\n");
	ctl_world_file(&w, "/sys/firmware/acpi/tables/DMAR", "x");
	ctl_world_dir(&w, "/sys/module/vfio_iommu_type1/parameters");
	ctl_world_file(&w, "/proc/self/status",
		       "Name:\twekactl\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-7\n");
	ctl_world_file(
		&w, "/proc/self/limits",
		"Limit   Soft Limit   Hard Limit   Units\n"
		"Max locked memory         8388608              8388608              bytes\n");
	ctl_world_file(&w, UNIT, "[Service]\nLimitMEMLOCK=infinity\n");
	node(0, "0-3", 1024);
	node(1, "4-7", 0);
	mine("/k", 0600);
	ctl_world_file(&w, "/run/systemd/timesync/synchronized", "%s", "");
	cr_assert_eq(app_conf_parse(&conf, "w.conf", file, strlen(file), why), 0, "%s", why);
	snprintf(conf.drive[0], sizeof(conf.drive[0]), "pci:" A "?nsid=1");
	conf.core = 3;
}

static void unmake(void)
{
	ctl_doctor_free(&d);
	ctl_world_free(&w);
}

static void look(const struct app_conf *c, const char *conf_why)
{
	ctl_doctor_free(&d);
	ctl_doctor_look(&d, w.root, "/etc/weka-appliance.conf", c, conf_why);
}

static void expect_fine(void)
{
	look(&conf, "");
	for (uint32_t i = 0; i < d.count; i++)
		cr_expect(d.finding[i].ok, "%s: %s", d.finding[i].check, d.finding[i].text);
}

static bool said(bool ok, const char *check, const char *text)
{
	for (uint32_t i = 0; i < d.count; i++)
		if (d.finding[i].ok == ok && strcmp(d.finding[i].check, check) == 0 &&
		    strstr(d.finding[i].text, text))
			return true;
	return false;
}

/* Exactly one thing is wrong: `check`, with `text`; `fix` is to be typed. */
static void expect_wrong(const char *check, const char *text, const char *fix)
{
	look(&conf, "");
	cr_expect_eq(ctl_doctor_wrong(&d), 1, "%s", text);
	for (uint32_t i = 0; i < d.count; i++) {
		const struct ctl_finding *f = &d.finding[i];

		if (f->ok)
			continue;
		cr_expect_str_eq(f->check, check, "%s: %s", f->check, f->text);
		cr_expect(strstr(f->text, text), "'%s' is not in '%s'", text, f->text);
		cr_expect(strstr(f->fix, fix), "'%s' is not in '%s'", fix, f->fix);
	}
}

TestSuite(ctl_doctor, .init = make, .fini = unmake, .timeout = 30);

Test(ctl_doctor, a_good_machine)
{
	expect_fine();
	cr_expect(said(true, "kernel", "6.1.0-28-amd64"));
	cr_expect(said(true, "drive", "pci:" A ": attached, IOMMU group 11"));
	cr_expect(said(true, "numa", "core 3 is on node 0"));
	cr_expect(said(true, "memlock", "weka-appliance.service: no limit"));
}

Test(ctl_doctor, kernels)
{
	static const char *const good[] = { "6.1.0", "6.18.44-x", "7.0", "10.0.1" };
	static const char *const bad[] = { "6.0.19", "5.10.0-28-amd64", "x", "" };

	for (size_t i = 0; i < 4; i++) {
		ctl_world_file(&w, "/proc/sys/kernel/osrelease", "%s\n", good[i]);
		look(&conf, "");
		cr_expect(said(true, "kernel", good[i]), "%s", good[i]);
		ctl_world_file(&w, "/proc/sys/kernel/osrelease", "%s\n", bad[i]);
		look(&conf, "");
		cr_expect(said(false, "kernel", "6.1 or newer"), "%s", bad[i]);
	}
}

static void take_groups_away(void)
{
	ctl_world_remove(&w, "/sys/kernel/iommu_groups");
	ctl_world_remove(&w, "/sys/bus/pci/devices/" A "/iommu_group");
	ctl_world_remove(&w, "/sys/bus/pci/devices/" B "/iommu_group");
	conf.ndrives = 0; /* the drive in no group is another finding */
}

Test(ctl_doctor, the_iommu_is_off)
{
	take_groups_away();
	expect_wrong("iommu", "no group in /sys/kernel/iommu_groups",
		     "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&intel_iommu=on iommu=pt /' "
		     "/etc/default/grub && update-grub && reboot");
	ctl_world_file(&w, "/proc/cmdline", "quiet intel_iommu=off\n");
	expect_wrong("iommu", "started with intel_iommu=off",
		     "sed -i 's/ *\\bintel_iommu=off\\b//' /etc/default/grub");
	ctl_world_file(&w, "/proc/cmdline", "quiet xintel_iommu=off\n");
	ctl_world_remove(&w, "/sys/firmware/acpi/tables/DMAR");
	expect_wrong("iommu", "the firmware shows none", "--firmware-setup   # and turn on VT-d");
	ctl_world_file(&w, "/proc/cpuinfo", "vendor_id\t: AuthenticAMD\n");
	expect_wrong("iommu", "the firmware shows none", "AMD-Vi");
}

Test(ctl_doctor, interrupts_are_not_remapped)
{
	ctl_world_file(&w, "/proc/interrupts", " 1: 5 0 IO-APIC 1-edge i8042\n");
	expect_wrong("interrupts", "not remapped", "allow_unsafe_interrupts=1");
	ctl_world_file(&w, "/proc/cmdline", "intremap=off\n");
	expect_wrong("interrupts", "not remapped", "\\bintremap=off\\b");
	ctl_world_file(&w, "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts",
		       "Y\n");
	expect_fine();
}

Test(ctl_doctor, vfio_is_not_loaded_or_not_there)
{
	conf.ndrives = 0;
	ctl_world_remove(&w, "/sys/bus/pci/drivers/vfio-pci");
	expect_wrong("vfio", "no module vfio-pci", "apt install linux-image-amd64");
	ctl_world_file(&w, "/lib/modules/6.1.0-28-amd64/modules.dep",
		       "kernel/drivers/vfio/pci/vfio-pci.ko: x\n");
	expect_wrong("vfio", "vfio-pci is not loaded", "modprobe -a vfio_iommu_type1 vfio-pci &&");
}

Test(ctl_doctor, a_drive_is_not_attached_or_not_there)
{
	snprintf(conf.drive[0], sizeof(conf.drive[0]), "pci:" B);
	conf.core = 4;
	node(1, "4-7", 1024);
	expect_wrong("drive", "pci:" B ": nvme has it", "wekactl drives attach pci:" B);
	ctl_world_file(&w, "/etc/systemd/system/multi-user.target.wants/weka-drives.service", "x");
	ctl_world_file(&w, CTL_DRIVES_FILE, "pci:" B "\n");
	expect_wrong("drive", "pci:" B ": nvme has it", "wekactl drives restore");
	snprintf(conf.drive[0], sizeof(conf.drive[0]), "pci:0000:99:00.0");
	ctl_world_file(&w, CTL_DRIVES_FILE, "pci:" A "\n");
	expect_wrong("drive", "pci:0000:99:00.0: no such NVMe device", "and correct");
}

Test(ctl_doctor, what_shares_a_group)
{
	ctl_world_device(&w, "0000:01:00.1", "0x040300", "snd_hda_intel", 11);
	expect_wrong("drive", "group 11 has 0000:01:00.1 too, which snd_hda_intel has",
		     "echo 0000:01:00.1 > /sys/bus/pci/devices/0000:01:00.1/driver/unbind");
}

Test(ctl_doctor, a_group_that_this_user_may_not_open)
{
	ctl_world_remove(&w, "/dev/vfio/11"); /* root may open anything */
	expect_wrong("drive", "/dev/vfio/11:", "wekactl drives attach --group $(id -gn) pci:" A);
}

Test(ctl_doctor, the_unit_that_restores_is_not_enabled)
{
	ctl_world_file(&w, CTL_DRIVES_FILE, "pci:" A "\n");
	expect_wrong("restart", "is not enabled", "systemctl enable weka-drives.service");
}

Test(ctl_doctor, a_file_of_drives_that_makes_no_sense)
{
	ctl_world_file(&w, CTL_DRIVES_FILE, "rubbish\n");
	expect_wrong("drives", CTL_DRIVES_FILE ":1:", "cat " CTL_DRIVES_FILE);
}

Test(ctl_doctor, too_few_huge_pages_on_the_cores_node)
{
	node(0, "0-3", 10);
	node(1, "4-7", 4096);
	expect_wrong("hugepages", "node 0: 10 of 2 MiB, the configuration wants ",
		     "echo 'w " NODE "/node0/hugepages/hugepages-2048kB/nr_hugepages - - - - ");
	conf.cache_bytes = 16u << 20;
	conf.staging_bytes = 16u << 20;
	node(0, "0-3", 60);
	expect_fine();
	snprintf(conf.drive[0], sizeof(conf.drive[0]), "file:/var/lib/weka/d0");
	node(0, "0-3", 0);
	expect_fine();
	ctl_world_remove(&w, NODE);
	expect_fine();
	cr_expect(said(true, "hugepages", "0 of 2 MiB"), "a kernel without nodes");
}

Test(ctl_doctor, limits_of_locked_memory)
{
	ctl_world_file(&w, UNIT, "[Service]\nExecStart=/x\n");
	expect_wrong("memlock", "weka-appliance.service: 8 MiB", "LimitMEMLOCK=infinity");
	ctl_world_file(&w, "/etc/systemd/system/weka-appliance.service.d/memlock.conf",
		       "[Service]\nLimitMEMLOCK=infinity\n");
	expect_fine();
	ctl_world_file(&w, "/etc/systemd/system/weka-appliance.service",
		       "[Service]\nLimitMEMLOCK=64K\n");
	expect_fine();
	ctl_world_remove(&w, "/etc/systemd/system/weka-appliance.service.d");
	expect_wrong("memlock", "weka-appliance.service: 64 KiB", "daemon-reload");
	ctl_world_remove(&w, "/etc/systemd/system/weka-appliance.service");
	ctl_world_remove(&w, UNIT);
	expect_wrong("memlock", "this shell: 8 MiB", "/etc/security/limits.d/weka.conf");
	ctl_world_file(&w, "/proc/self/status",
		       "CapEff:\t0000000000004000\nCpus_allowed_list:\t0-7\n");
	expect_fine();
	ctl_world_file(&w, "/proc/self/status", "CapEff:\tzz\nCpus_allowed_list:\t0-7\n");
	ctl_world_file(
		&w, "/proc/self/limits",
		"Max locked memory         unlimited            unlimited            bytes\n");
	expect_fine();
}

Test(ctl_doctor, the_core_is_far_from_the_drives)
{
	conf.core = 5;
	node(1, "4-7", 1024);
	expect_wrong("numa", "core 5 is on node 1, most drives on node 0 (distance 21)",
		     "sed -i 's/^core.*/core = 3/' /etc/weka-appliance.conf");
	conf.core = APP_CORE_AUTO; /* 7, the highest */
	expect_wrong("numa", "core 7 is on node 1", "core = 3");
	conf.core = APP_CORE_NONE;
	expect_fine();
}

Test(ctl_doctor, io_uring_is_forbidden)
{
	snprintf(conf.drive[0], sizeof(conf.drive[0]), "file:/var/lib/weka/d0");
	ctl_world_file(&w, "/proc/sys/kernel/io_uring_disabled", "2\n");
	expect_wrong("io_uring", "io_uring_disabled = 2", "sysctl -p /etc/sysctl.d/80-weka.conf");
	ctl_world_file(&w, "/proc/sys/kernel/io_uring_disabled", "0\n");
	expect_fine();
	ctl_world_file(&w, "/proc/sys/kernel/io_uring_disabled", "1\n");
	expect_wrong("io_uring", "io_uring_disabled = 1", "sysctl");
	ctl_world_file(&w, "/proc/self/status",
		       "CapEff:\t0000000000200000\nCpus_allowed_list:\t0-7\n");
	expect_fine();
	snprintf(conf.drive[0], sizeof(conf.drive[0]), "pci:" A);
	ctl_world_file(&w, "/proc/sys/kernel/io_uring_disabled", "2\n");
	expect_fine();
}

/* Files need nothing of what a controller needs: no IOMMU, no vfio, no locked memory. */
Test(ctl_doctor, a_configuration_of_files_only_is_not_wrong_for_what_files_do_not_need)
{
	snprintf(conf.drive[0], sizeof(conf.drive[0]), "file:/var/lib/weka/d0");
	ctl_world_remove(&w, "/sys/kernel/iommu_groups");
	ctl_world_remove(&w, "/sys/firmware/acpi");
	ctl_world_remove(&w, "/sys/bus/pci/drivers/vfio-pci");
	ctl_world_remove(&w, "/sys/module/vfio_iommu_type1");
	ctl_world_remove(&w, "/lib/modules");
	ctl_world_file(&w, UNIT, "[Service]\nLimitMEMLOCK=64K\n");
	expect_fine();
	ctl_world_remove(&w, UNIT);
	expect_fine();
	cr_expect(said(true, "iommu", "only pci: drives need it"));
	cr_expect(said(true, "vfio", "only pci: drives need it"));
	cr_expect(said(true, "memlock", "only pci: drives need more"));
	ctl_world_file(&w, CTL_DRIVES_FILE, "pci:" A "\n");
	look(&conf, "");
	cr_expect(said(false, "iommu", "off"), "an attached drive needs it all the same");
}

/* ---- the service ----------------------------------------------------------------------------- */

Test(ctl_doctor, keys_that_others_may_read_or_the_daemon_may_not)
{
	mine("/k", 0640);
	expect_wrong("permissions", "/k: mode 640: only its owner may read it", "chmod go= /k");
	ctl_world_remove(&w, "/k");
	expect_wrong("permissions", "/k: No such file",
		     "wekactl --config /etc/weka-appliance.conf keys init");
	mine("/k", 0400);
	expect_fine();
	/* The unit runs as weka, whose number is another one. */
	ctl_world_file(&w, "/etc/passwd", "root:x:0:0::/:\nwekaman:x:7:7::/:\nweka:x:%u:9::/:\n",
		       (unsigned)geteuid() + 1);
	expect_wrong("permissions", "/k: belongs to user", "chown -R weka /k");
	ctl_world_file(&w, "/etc/passwd", "weka:x:%u:9::/:\n", (unsigned)geteuid());
	expect_fine();
	snprintf(conf.key_dir, sizeof(conf.key_dir), "/keys");
	expect_wrong("permissions", "/keys: No such file", "install -d -o weka -m 0700 /keys");
	ctl_world_dir(&w, "/keys");
	mine("/keys/a.key", 0600);
	look(&conf, "");
	cr_expect(said(false, "permissions", "/keys: mode 7"), "a directory that others may list");
}

Test(ctl_doctor, drives_that_the_daemon_may_not_write)
{
	ctl_world_file(&w, "/etc/passwd", "weka:x:%u:9::/:\n", (unsigned)geteuid() + 1);
	conf.key_file[0] = '\0';
	snprintf(conf.drive[0], sizeof(conf.drive[0]), "file:/var/lib/weka/d0?size=1G");
	expect_fine(); /* format will make it */
	mine("/var/lib/weka/d0", 0600);
	expect_wrong("permissions", "/var/lib/weka/d0: belongs to user",
		     "chown weka /var/lib/weka/d0 && chmod u+rw /var/lib/weka/d0");
	mine("/var/lib/weka/d0", 0666);
	expect_fine();
	mine("/var/lib/weka/d0", 0660); /* weka may be of that group */
	expect_fine();
	ctl_world_file(&w, "/etc/passwd", "weka:x:%u:9::/:\n", (unsigned)geteuid());
	mine("/var/lib/weka/d0", 0400);
	if (geteuid() != 0)
		expect_wrong("permissions", "mode 400: the daemon", "chmod u+rw");
}

#define SOCKETS                                                                                    \
	"  sl  local_address rem_address   st tx rx tr tm->when retrnsmt   uid  timeout inode\n"

Test(ctl_doctor, a_port_that_another_program_has)
{
	conf.nlisten = 2;
	snprintf(conf.listen[1], sizeof(conf.listen[1]), "tcp://127.0.0.1:7010");
	expect_fine();
	cr_expect(said(true, "port", "tcp://127.0.0.1:7010: free"));
	ctl_world_file(&w, "/proc/net/tcp",
		       SOCKETS "   0: 0100007F:1B62 00000000:0000 0A 00000000:00000000 00:00000000 "
			       "00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0\n");
	look(&conf, "");
	cr_expect(said(true, "port", "a process of another user listens there"));
	ctl_world_file(&w, "/proc/77/comm", "nginx\n");
	ctl_world_link(&w, "/proc/77/fd/5", "socket:[4711]");
	expect_wrong("port", "listen = tcp://127.0.0.1:7010: taken by nginx, process 77",
		     "systemctl status 77   # stop that, or choose another port in "
		     "/etc/weka-appliance.conf");
	ctl_world_file(&w, "/proc/77/comm", "weka-appliance\n");
	expect_fine();
	ctl_world_file(&w, "/proc/77/comm", "nginx\n");
	snprintf(conf.listen[1], sizeof(conf.listen[1]), "tls://0.0.0.0:7010");
	expect_wrong("port", "taken by nginx", "systemctl status 77");
	snprintf(conf.listen[1], sizeof(conf.listen[1]), "tcp://127.0.0.2:7010");
	expect_fine();
	snprintf(conf.listen[1], sizeof(conf.listen[1]), "tcp://127.0.0.1:7011");
	expect_fine();
	/* A connection, and no listener. */
	snprintf(conf.listen[1], sizeof(conf.listen[1]), "tcp://127.0.0.1:7010");
	ctl_world_file(&w, "/proc/net/tcp",
		       SOCKETS "   0: 0100007F:1B62 0100007F:9999 01 00000000:00000000 00:00000000 "
			       "00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0\n");
	expect_fine();
	snprintf(conf.metrics, sizeof(conf.metrics), "[::1]:9620");
	ctl_world_file(&w, "/proc/net/tcp6",
		       SOCKETS "   0: 00000000000000000000000000000000:2594 "
			       "00000000000000000000000000000000:0000 0A 00000000:00000000 "
			       "00:00000000 00000000  0        0 4711 1 0 100 0 0 10 0\n");
	expect_wrong("port", "metrics = [::1]:9620: taken by nginx", "systemctl status 77");
	ctl_world_file(&w, "/proc/net/tcp6", "rubbish\n 0: x y 0A\n:::: : : 0A : : : : : :\n");
	expect_fine();
}

Test(ctl_doctor, no_device_for_rdma)
{
	conf.nlisten = 2;
	snprintf(conf.listen[1], sizeof(conf.listen[1]), "rdma://10.0.0.1:7010");
	expect_wrong("rdma", "no RDMA device, and the configuration has rdma://",
		     "apt install rdma-core && modprobe mlx5_ib");
	ctl_world_dir(&w, "/sys/class/infiniband/mlx5_0");
	expect_wrong("rdma", "mlx5_0, but no /dev/infiniband/rdma_cm", "modprobe rdma_ucm");
	ctl_world_file(&w, "/dev/infiniband/rdma_cm", "x");
	expect_fine();
	cr_expect(said(true, "rdma", "1 device, the first is mlx5_0"));
}

Test(ctl_doctor, a_clock_that_is_wrong)
{
	char full[CTL_PATH_SIZE];
	struct timespec times[2] = { { 0 }, { 0 } };

	ctl_world_remove(&w, "/run/systemd/timesync");
	expect_wrong("clock", "nothing keeps it right",
		     "apt install systemd-timesyncd && timedatectl set-ntp true");
	ctl_world_file(&w, "/run/chrony/chronyd.pid", "7\n");
	expect_fine();
	cr_expect(said(true, "clock", "chrony"));
	/* A file from a day that this clock has not reached. */
	mine("/var/lib/dpkg/status", 0644);
	snprintf(full, sizeof(full), "%s/var/lib/dpkg/status", w.root);
	times[0].tv_sec = times[1].tv_sec = (time_t)(clock_wall_ns() / NS_PER_S) + 86400;
	cr_assert_eq(utimensat(AT_FDCWD, full, times, 0), 0);
	expect_wrong("clock", "it is slow: /var/lib/dpkg/status was changed 86", "set-ntp true");
}

/* e2e_doctor.sh tries file drives with stores that were formatted. */
Test(ctl_doctor, drives_that_hold_no_store)
{
	snprintf(conf.drive[0], sizeof(conf.drive[0]), "file:/var/lib/weka/d0?size=1G");
	mine("/var/lib/weka/d0", 0600);
	expect_fine();
	for (uint32_t i = 0; i < d.count; i++)
		cr_expect_str_neq(d.finding[i].check, "store");
}

Test(ctl_doctor, no_configuration_and_a_wrong_one)
{
	look(NULL, "");
	cr_expect_eq(ctl_doctor_wrong(&d), 0);
	cr_expect(said(true, "config", "no /etc/weka-appliance.conf yet"));
	look(NULL, "w.conf:3: cache = 7 parsecs");
	cr_expect_eq(ctl_doctor_wrong(&d), 1);
	cr_expect(said(false, "config", "7 parsecs"));
}

Test(ctl_doctor, an_empty_machine_is_wrong_in_many_ways_and_survives)
{
	ctl_world_remove(&w, "/sys");
	ctl_world_remove(&w, "/proc");
	ctl_world_remove(&w, "/dev");
	look(&conf, "");
	cr_expect_gt(ctl_doctor_wrong(&d), 4);
	for (uint32_t i = 0; i < d.count; i++)
		cr_expect_eq(d.finding[i].ok, d.finding[i].fix[0] == '\0', "%s", d.finding[i].text);
}

Test(ctl_doctor, what_is_printed)
{
	char *text = NULL, *at, *line;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	ctl_world_file(&w, "/proc/sys/kernel/osrelease", "5.10\n");
	look(&conf, "");
	ctl_doctor_print(f, &d);
	fflush(f);
	cr_expect(strstr(text, "WRONG  kernel       5.10: 6.1 or newer is needed\n"
			       "                    type: apt install"),
		  "%s", text);
	cr_expect(strstr(text, "doctor: 1 of "), "%s", text);
	rewind(f);
	ctl_doctor_print_json(f, &d);
	fclose(f);
	for (at = text; (line = ctl_next_line(&at)) && *line == '{';) {
		json_t *o = json_loads(line, 0, NULL);

		cr_assert_not_null(o, "%s", line);
		cr_expect_eq(json_is_true(json_object_get(o, "ok")),
			     json_is_null(json_object_get(o, "type")));
		json_decref(o);
	}
	free(text);
}
