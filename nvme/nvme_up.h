/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Brings up a controller, one step at a time: in nvme_open(), which waits between the steps, and
 * after a reset, when the drive's owner takes them in its loop.  Private to nvme/ and its tests.
 */
#ifndef NVME_UP_H
#define NVME_UP_H

#include "nvme/nvme_admin.h"

#define NVME_UP_TEXT 160u

/* Registers that bring-up begins with. */
enum { UP_CSTS, UP_CC, UP_CAP, UP_VS, UP_CRTO, UP_CMBSZ, NVME_UP_REGS };

/* Checked identify data of the controller and its namespace; nothing in it is trusted before.
 */
struct nvme_found {
	struct nvme_info info;
	uint32_t nsid;
	uint32_t lba_shift;
	uint64_t size_lbas;
	uint32_t version;
	uint32_t oacs, oncs, oaes;
	uint32_t event_commands; /* that may be outstanding at once                     */
	uint32_t awupf;          /* of the controller, LBAs less 1                      */
	uint64_t shutdown_ns;    /* 0: it does not say                                  */
	uint8_t ns_id[24];       /* NGUID and EUI64 of the namespace; zeroes: none      */
	uint32_t warning_kelvin; /* 0: it does not say                                  */
	bool sgl;                /* data may be described as one piece instead of pages */
	uint32_t zero_max_bytes; /* of one write zeroes; 0: no limit                    */
	uint64_t free_max_lbas;  /* of one range of a deallocate; 0: no limit           */
};

struct nvme_up {
	struct nvme_drive *drive; /* whose controller it is */
	struct nvme_drive *ns;    /* whose namespace is examined */
	bool again;               /* it was up before: its answers must fit the known ones */
	uint32_t qpair_count_wanted;
	uint32_t stage, stages_end;
	bool begun;
	bool gone;         /* it failed because registers read all ones */
	uint32_t reg_next; /* registers that have been read: of the table in nvme_up.c */
	uint64_t reg[NVME_UP_REGS];
	uint32_t csts_mask, csts_want; /* value that a stage of registers waits for */
	uint64_t now_ns;
	uint64_t deadline_ns;
	struct nvme_admin_cmd cmd;
	struct nvme_found found;
	uint32_t list_after; /* the last namespace of the list so far */
	uint32_t list_count;
	uint32_t list_pages;
	char list_text[64];
	char text[NVME_UP_TEXT]; /* what went wrong, for people */
};

/* From anywhere: nothing is in flight that the controller has not forgotten by its disabling. */
void nvme__up_begin(struct nvme_up *up, struct nvme_drive *drive, bool again,
		    uint32_t qpair_count_wanted);

/* Identifies one more namespace of a controller that is up. */
void nvme__up_begin_ns(struct nvme_up *up, struct nvme_drive *ns);

/*
 * nvme__up_step - take the next step; never blocks
 *
 * Returns 1 while it waits for the controller; 0: the controller is up, and the drive has its
 * properties; or -errno, with up->text: -ENODEV it is gone, or another one now; -ETIMEDOUT; -EIO;
 * -ENOTSUP we cannot use it.  The caller makes the I/O queues.
 */
must_check int nvme__up_step(struct nvme_up *up, uint64_t now_ns);

/* ---- what identify data says: nvme_ns.c ---------------------------------------------- */

/*
 * Text of the controller, as a string of at most `size` characters: spaces at its end cut off,
 * and nothing in it that a terminal obeys.
 */
void nvme__copy_text(char *to, const char *from, size_t size);

/* Each returns 0, or -errno and a line in `text`. */
must_check int nvme__read_controller(struct nvme_found *found, const struct nvme_id_ctrl *id,
				     uint64_t cap, char *text, size_t text_size);
void nvme__read_limits(struct nvme_found *found, const struct nvme_id_ctrl_nvm *id);
must_check int nvme__read_descriptors(const uint8_t *page, char *text, size_t text_size);
must_check int nvme__read_namespace(struct nvme_found *found, const struct nvme_id_ns *ns,
				    char *text, size_t text_size);

#endif
