// libhwloc.a asks libudev for the names of disks, and libudev has no static library. Lockstep wants
// no disks: a udev that can't be opened makes hwloc go on without.
#include <stddef.h>

void* udev_new(void);
void* udev_unref(void* udev);
void* udev_device_new_from_subsystem_sysname(void* udev, const char* subsystem, const char* name);
const char* udev_device_get_property_value(void* device, const char* key);
void* udev_device_unref(void* device);

void* udev_new(void) { return NULL; }

void* udev_unref(void* udev) {
  (void)udev;
  return NULL;
}

void* udev_device_new_from_subsystem_sysname(void* udev, const char* subsystem, const char* name) {
  (void)udev;
  (void)subsystem;
  (void)name;
  return NULL;
}

const char* udev_device_get_property_value(void* device, const char* key) {
  (void)device;
  (void)key;
  return NULL;
}

void* udev_device_unref(void* device) {
  (void)device;
  return NULL;
}
