/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Facts of PCI devices for both wekactl and the driver. */
#ifndef NVME_PCI_H
#define NVME_PCI_H

#include <stdbool.h>
#include <string.h>

/*
 * nvme_pci_shares_group - whether vfio gives an IOMMU group away while `driver` has a device in it
 *
 * "": no driver has.  The others do no DMA of their own; pci-stub is the kernel's driver that
 * holds a device and does nothing with it.
 */
static inline bool nvme_pci_shares_group(const char *driver)
{
	return !*driver || strcmp(driver, "vfio-pci") == 0 || strcmp(driver, "pcieport") == 0 ||
	       strcmp(driver, "pci-stub") == 0;
}

#endif
